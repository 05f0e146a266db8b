-- Queues that serve fairness keys in turns.

alter table tidegate.queue
  add column fair_by text,
  add constraint queue_fair_by_is_submitter_or_kind check (fair_by in ('submitter', 'kind'));

alter table tidegate.queue_pace add column per_round numeric;

insert into tidegate.maintenance (duty, period) values ('fold_turns', '1 second');

-- These have other parameters or columns now.
drop view if exists tidegate.queue_overview, tidegate.queue_position;
drop function if exists
  tidegate.all_messages, tidegate.queue_add, tidegate_internal.enter_queue, tidegate_internal.make_storage,
  tidegate_internal.queue_counters, tidegate_internal.send_messages, tidegate_internal.submit_answers,
  tidegate_internal.submit_etas, tidegate_internal.waiting_before;
