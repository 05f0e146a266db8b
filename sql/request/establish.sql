-- establish: Notes whether requests that have ended were executed, by a source that knows.
--
-- Only of requests with a row in `outcome`: the others' sends certainly had no effect, or were answered. In the
-- transaction that ends the requests, or under the locks of their rows.
create or replace function tidegate_internal.establish(p_ids uuid[], p_executed text, p_source text)
  returns void language sql as $$
  update tidegate.outcome as o
  set executed = p_executed, source = p_source, at = tidegate.clock()
  where o.request_id = any(p_ids);
$$;
