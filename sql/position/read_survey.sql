-- read_survey: What the last survey of a queue knows from block `p_from` to block `p_last`, chunk by chunk.
--
-- A block is 256 numbers, a chunk 64 blocks. A chunk is known up to the block `known`; `before` messages wait between
-- `p_from` and the chunk. All null when the survey has no chunk there. Planned with the settings of its caller.
create or replace function tidegate_internal.read_survey(
  p_queue text, p_from bigint, p_last bigint, out chunks bigint[], out known bigint[], out before bigint[]
)
  language plpgsql stable as $$
begin
  select array_agg(c.chunk), array_agg(c.known), array_agg(c.before) into chunks, known, before
  from (
    select
      s.chunk, s.chunk * 64 + cardinality(s.waiting_by_block) as known,
      sum(s.waiting) over (order by s.chunk) - s.waiting - coalesce((
        select sum(b)
        from tidegate.queue_survey as f
        cross join unnest(f.waiting_by_block[1 : p_from % 64]) as b
        where f.queue = p_queue and f.chunk = p_from / 64
      ), 0) as before
    from tidegate.queue_survey as s
    where s.queue = p_queue and s.chunk between p_from / 64 and p_last / 64
    order by s.chunk
  ) as c;
end;
$$;
