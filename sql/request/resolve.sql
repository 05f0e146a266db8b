-- resolve: By an operator, or the downstream: says whether a request that has ended was executed. Returns resolved;
-- kept, when the downstream has said otherwise; known, when it was said before; or not_unresolved, for a request that
-- lives, or of which nothing was ever unknown; with what is known now.
--
-- `executed` is yes or no, `note` says how that is known. `by_downstream`: the downstream says so, and not an operator.
-- After no, the idempotency key is free. Raises TG006 for an unknown id, TG007 for another word, or a note that is
-- longer than 1000 characters.
create or replace function tidegate.resolve(
  id uuid, executed text, note text default null, actor text default null, by_downstream boolean default false,
  out outcome text, out req_status tidegate.request_status, out known text, out source text
)
  language plpgsql security definer as $$
declare
  v_before tidegate.outcome;
begin
  if resolve.executed in ('yes', 'no') is not true or length(resolve.note) > 1000 then
    raise exception using errcode = 'TG007',
      message = 'a resolution is yes or no, with a note of at most 1000 characters';
  end if;
  select r.req_status into req_status from tidegate.request as r where r.id = resolve.id for update;
  if not found then
    raise exception using errcode = 'TG006', message = format('there is no request %s', resolve.id);
  end if;
  select * into v_before from tidegate.outcome as o where o.request_id = resolve.id;
  perform tidegate_internal.resolve_requests(
    array[resolve.id], resolve.executed, case when by_downstream then 'downstream' else 'operator' end, resolve.note,
    left(coalesce(resolve.actor, nullif(current_setting('tidegate.actor', true), ''), session_user), 200)
  );
  select o.executed, o.source into known, source from tidegate.outcome as o where o.request_id = resolve.id;
  outcome := case
    when known is null then 'not_unresolved'
    when known <> resolve.executed then 'kept'
    when v_before.executed = known then 'known'
    else 'resolved'
  end;
end;
$$;
select tidegate_internal.allow('resolve', '{api,admin}');
