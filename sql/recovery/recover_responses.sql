-- recover_responses: One batch: applies early responses whose request awaits one now; call again while `more` is true.
--
-- One bounded batch a call: how many it has `applied`, and whether there is `more`. `dry_run` counts all of
-- them and changes nothing. `run` is the record that counts them.
create or replace function tidegate.recover_responses(
  batch integer default 1000, dry_run boolean default false, run bigint default null,
  out applied bigint, out more boolean
)
  language plpgsql security definer as $$
declare
  v_found record;
begin
  if not dry_run then
    applied := tidegate.sweep_inbox(batch, everything => true);
    perform tidegate_internal.record_recovery(run, jsonb_build_object('responses', applied));
  end if;
  select count(*) filter (where r.req_status = 'receipt_received') as applicable, count(*) > 0 as some into v_found
  from tidegate.response_inbox as i
  left join tidegate.request_reference as f on f.reference = i.reference
  join tidegate.request as r on r.id = coalesce(i.request_id, f.request_id)
  where not i.late and r.req_status not in ('queued', 'processing', 'tx_in_flight');
  applied := coalesce(applied, v_found.applicable);
  more := v_found.some and not dry_run;
end;
$$;
select tidegate_internal.allow('recover_responses', '{admin}');
select tidegate_internal.plan_along_indexes('recover_responses', 'hashjoin');
