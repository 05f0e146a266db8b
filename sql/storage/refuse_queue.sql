-- refuse_queue: Raises the error for a queue that a queue function has no branch for (see `each_queue`).
--
-- Raises TG005 for an unknown queue; 40001 for one that is being made.
create or replace function tidegate_internal.refuse_queue(p_queue text)
  returns void language plpgsql as $$
begin
  perform tidegate_internal.require_queue(p_queue);
  raise exception using errcode = '40001', message = format('queue "%s" is being made', p_queue),
    hint = 'try again; if that does not help, `tidegate recover` builds the functions of queues';
end;
$$;
