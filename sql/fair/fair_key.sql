-- fair_key: The fairness key of a request in a queue that is fair by this column: a hash of its submitter or kind.
--
-- Requests without a submitter share one key. Two texts with one hash would share a turn.
create or replace function tidegate_internal.fair_key(p_fair_by text, p_submitter text, p_kind text)
  returns bigint language sql immutable parallel safe
return (
  case p_fair_by
    when 'kind' then hashtextextended(p_kind, 0)
    else coalesce(hashtextextended(nullif(p_submitter, ''), 0), 0)
  end
);
