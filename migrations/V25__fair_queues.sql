-- Queues that serve fairness keys in turns.

alter table tidegate.queue
  add column fair_by text,
  add constraint queue_fair_by_is_submitter_or_kind check (fair_by in ('submitter', 'kind'));

alter table tidegate.queue_pace add column per_round numeric;

create table tidegate.fair_key (
  queue text not null references tidegate.queue (name) on delete cascade,
  name text not null,
  key bigint not null,
  weight integer not null default 1,
  paused boolean not null default false,
  primary key (queue, name),
  constraint fair_key_weight_is_1_to_1000 check (weight between 1 and 1000)
);
create unique index fair_key_key_idx on tidegate.fair_key (queue, key);

insert into tidegate.maintenance (duty, period) values ('fold_turns', '1 second');

-- These have other parameters or columns now.
drop view if exists tidegate.queue_overview, tidegate.queue_position;
drop function if exists
  tidegate.all_messages, tidegate.queue_add, tidegate_internal.enter_queue, tidegate_internal.make_storage,
  tidegate_internal.queue_counters, tidegate_internal.send_messages, tidegate_internal.submit_answers,
  tidegate_internal.submit_etas, tidegate_internal.waiting_before;
