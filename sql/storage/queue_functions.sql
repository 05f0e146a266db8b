-- queue_functions: The functions with a branch for each queue: their bodies, and the bodies that the queues require.
create or replace function tidegate_internal.queue_functions()
  returns table (signature regprocedure, body text, wanted text) language sql stable as $$
  select
    p.oid, p.prosrc,
    tidegate_internal.each_queue(
      p.prosrc,
      array(
        select q.name
        from tidegate.queue as q
        where case m.marker
          when '-- each queue' then true
          when '-- each fair queue' then q.fair_by is not null
          else q.fair_by is null
        end
        order by q.name
      )
    )
  from pg_proc as p
  cross join lateral (select substring(p.prosrc from '-- each (?:fifo |fair )?queue') as marker) as m
  where p.pronamespace in ('tidegate'::regnamespace, 'tidegate_internal'::regnamespace)
    and m.marker is not null
    and p.proname not in ('each_queue', 'queue_functions')
  order by p.oid;
$$;
