-- How many messages wait, by stretches of message numbers: what the position of a message deep in a queue is told from.

create table tidegate.queue_survey (
  queue            text not null,
  stretch          bigint not null,
  waiting          integer not null,
  waiting_by_block smallint[] not null,
  primary key (queue, stretch),
  constraint queue_survey_counts_up_to_sixty_four_blocks check (cardinality(waiting_by_block) between 1 and 64),
  constraint queue_survey_waiting_is_not_negative check (waiting >= 0)
) with (
  -- Every poll reads it, and the stretches at the head of a queue change all the time.
  fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200
);

-- The counters of queues that are there already; `queue_storage` makes those of later ones.
do $$
declare
  v_queue text;
begin
  for v_queue in select q.name from tidegate.queue as q loop
    execute format('create sequence if not exists tidegate.%I', 'survey_' || v_queue);
    execute format('create sequence if not exists tidegate.%I', 'hand_' || v_queue);
  end loop;
end;
$$;

insert into tidegate.maintenance (duty, period) values ('survey_queues', '1 second');
