-- answer_cause: The cause of the transition that a response, a share or a verdict makes.
create or replace function tidegate_internal.answer_cause(p_part text, p_accept boolean)
  returns text language sql immutable
return (
  case
    when p_part is not null then 'threshold_reached'
    when p_accept then 'verdict_accepted'
    when not p_accept then 'verdict_rejected'
    else 'response'
  end
);
