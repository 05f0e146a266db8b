-- Counters of queues get names that say what they are (see `queue_counter`), and the parts of a survey are its chunks.
-- The functions at the end have other parameters or results now.

do $$
declare
  v_renamed record;
begin
  for v_renamed in
    select
      to_regclass('tidegate.' || quote_ident(n.was || '_' || q.name)) as sequence, n.becomes || '_' || q.name as name
    from tidegate.queue as q
    cross join (
      values
        ('head', 'first_waiting'), ('hand', 'survey_cursor'), ('surveyed', 'not_waiting'), ('survey', 'surveyed_at'),
        ('ended', 'closed_draws'), ('noted', 'snapshot_number'), ('noted_xact', 'snapshot_xid'),
        ('due', 'due_watermark'), ('reaped', 'lease_watermark')
    ) as n(was, becomes)
  loop
    if v_renamed.sequence is not null then
      execute format('alter sequence %s rename to %I', v_renamed.sequence, v_renamed.name);
    end if;
  end loop;
end;
$$;

alter table tidegate.queue_survey rename column stretch to chunk;

drop function if exists
  tidegate.survey_queue, tidegate_internal.survey_stretches, tidegate_internal.reaped_until,
  tidegate_internal.dedup_claim, tidegate_internal.resolve_requests;
