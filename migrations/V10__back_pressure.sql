-- Gates that close and open by themselves, for queues and, as caps, for kinds and submitters.

-- A gate watches one thing: a queue, the requests of a kind, or those of a submitter. Its name says which.
alter table tidegate.gate drop constraint gate_pkey;
alter table tidegate.gate alter column queue drop not null;
alter table tidegate.gate add column kind text references tidegate.kind on delete cascade;
alter table tidegate.gate add column submitter text;
alter table tidegate.gate add column name text
  generated always as (coalesce(queue, 'kind ' || kind, 'submitter ' || submitter)) stored;
alter table tidegate.gate add constraint gate_pkey primary key (name);
alter table tidegate.gate add constraint gate_queue_has_one unique (queue);
alter table tidegate.gate add constraint gate_kind_has_one unique (kind);
alter table tidegate.gate add constraint gate_submitter_has_one unique (submitter);
alter table tidegate.gate add constraint gate_watches_one_thing check (num_nonnulls(queue, kind, submitter) = 1);
alter table tidegate.gate add constraint gate_submitter_has_1_to_200_characters check (length(submitter) between 1 and 200);

alter table tidegate.gate_event rename column queue to gate;
alter table tidegate.gate_event add column id bigint generated always as identity;

-- What the gates of kinds and submitters watch: their requests that are in a queue. Written only for those that have one.
-- Refers to nothing: every submission would lock its gate's row, and fail where the gate has just gone.
create table tidegate.gate_member (
  gate       text not null,
  request_id uuid not null,
  primary key (gate, request_id)
);
create index gate_member_request_idx on tidegate.gate_member (request_id);

-- How far the look round has come that finds what these gates should count and do not, or should not and do.
create table tidegate.gate_round (
  only_row   boolean primary key default true,
  queue      text not null default '',
  msg_id     bigint not null default 0,
  gate       text not null default '',
  request_id uuid not null default '00000000-0000-0000-0000-000000000000',
  is_new     boolean not null default false,
  constraint gate_round_has_one_row check (only_row)
);
insert into tidegate.gate_round default values;

-- What a submission finds at its gates. `room`: how many more they let in, none when one is closed; `counted`: the gates
-- whose depth was counted, `depths` those depths, before the submission; `waiting`: how many wait in the queue, if that
-- was seen on the way.
create type tidegate.admission as (
  room    bigint,
  closed  boolean,
  counted text[],
  depths  bigint[],
  waiting bigint
);

insert into tidegate.maintenance (duty, period) values ('look_at_gates', '1 second'), ('count_members', '1 second');
