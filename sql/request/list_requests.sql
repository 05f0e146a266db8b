-- list_requests: One page of requests, newest first, in bounded work; the next page begins before next_before.
--
-- `kind`, `states`, `since` (submitted at or after), `until` (submitted before), `submitter` and `queue` (their message
-- is there, or a worker holds it), `cause` (that of its last step, or the code of its error), `executed` (yes, no,
-- unknown) and `attempts` (at least as many sends) narrow it; null: all. `before` is the `next_before` of the page
-- before. A page has at most `page` rows and examines about `examine` requests, however few of them match: its work is
-- bounded, and the next page continues there. `next_before` is the same in each row, and null on the last page; a page
-- that found nothing but is not the last is one row without an id. No row: there are no further requests. Raises TG002
-- for an unknown kind, TG005 for an unknown queue.
create or replace function tidegate.list_requests(
  kind text default null, states tidegate.request_status[] default null, since timestamptz default null,
  before uuid default null, submitter text default null, page integer default 100,
  examine integer default 10000, queue text default null, until timestamptz default null, cause text default null,
  executed text default null, attempts integer default null
)
  returns table (
    id uuid, req_status tidegate.request_status, submitted_by text, submitted_at timestamptz, finished_at timestamptz,
    next_before uuid
  )
  -- A page, so that what is joined with it is looked up, not read as a whole.
  language plpgsql stable security definer rows 100
  -- The rows in range depend on `before` and `since`, which a generic plan would estimate wrongly for every page.
  set plan_cache_mode = force_custom_plan
as $$
declare
  v_page     integer := least(greatest(coalesce(list_requests.page, 100), 1), 1000);
  v_examine  integer := least(greatest(coalesce(list_requests.examine, 10000), v_page), 100000);
  -- Ids cannot express times beyond these bounds.
  v_since    uuid := tidegate.uuid_v7_floor(least(greatest(list_requests.since, '1970-01-01Z'), '9999-01-01Z'));
  v_before   uuid := least(
    coalesce(list_requests.before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'),
    case when list_requests.until is not null
      then tidegate.uuid_v7_floor(least(greatest(list_requests.until, '1970-01-01Z'), '9999-01-01Z')) end
  );
  v_rows     refcursor;
  v_examined integer := 0;
  v_last     uuid;
  v_row      record;
  v_found    uuid[] := '{}';
  v_next     uuid;
begin
  perform tidegate_internal.require_kind(list_requests.kind) where list_requests.kind is not null;
  perform tidegate_internal.require_queue(list_requests.queue) where list_requests.queue is not null;
  -- `+ 1000`: one row shows that there is a next page, the others let the loop reach the end of the last microsecond.
  if list_requests.kind is null then
    open v_rows no scroll for
      select r.id, r.req_status, r.submitter, r.queue, r.cause, r.error ->> 'code' as code, r.tx_attempt,
        case when list_requests.executed is not null then tidegate.executed(r) end as executed
      from tidegate.request as r
      where r.id < v_before and r.id >= v_since
      order by r.id desc
      limit v_examine + 1000;
  else
    -- Row values, which only the partial index on (kind, id) serves (`kind >= ''` is its predicate): the primary key
    -- would pass over the requests of all other kinds.
    open v_rows no scroll for
      select r.id, r.req_status, r.submitter, r.queue, r.cause, r.error ->> 'code' as code, r.tx_attempt,
        case when list_requests.executed is not null then tidegate.executed(r) end as executed
      from tidegate.request as r
      where r.kind >= '' and (r.kind, r.id) < (list_requests.kind, v_before)
        and (r.kind, r.id) >= (list_requests.kind, v_since)
      order by r.kind desc, r.id desc
      limit v_examine + 1000;
  end if;
  loop
    fetch v_rows into v_row;
    exit when not found;
    if cardinality(v_found) = v_page then
      v_next := v_found[v_page];
      exit;
    end if;
    -- The first 18 characters of an id have its time to the microsecond. The next page begins below that microsecond,
    -- so that a caller without access to the last request examined does not learn its id.
    if v_examined >= v_examine and left(v_row.id::text, 18) <> left(v_last::text, 18) then
      v_next := (left(v_last::text, 18) || '-0000-000000000000')::uuid;
      exit;
    end if;
    v_examined := v_examined + 1;
    v_last := v_row.id;
    if (list_requests.states is null or v_row.req_status = any (list_requests.states))
      and (list_requests.submitter is null or v_row.submitter = list_requests.submitter)
      and (list_requests.queue is null or v_row.queue = list_requests.queue)
      and (list_requests.cause is null or list_requests.cause in (v_row.cause, v_row.code))
      and (list_requests.executed is null or v_row.executed = list_requests.executed)
      and (list_requests.attempts is null or v_row.tx_attempt >= list_requests.attempts)
    then
      v_found := v_found || v_row.id;
    end if;
  end loop;
  close v_rows;

  return query
    select r.id, r.req_status, r.submitter, r.submitted_at, r.finished_at, v_next
    -- One row, also if no request was found.
    from (select) as page
    left join tidegate.request as r on r.id = any(v_found)
    where r.id is not null or v_next is not null
    order by r.id desc;
end;
$$;
select tidegate_internal.allow('list_requests', '{reader,api,worker,admin}');
