-- session_end: For API nodes: ends a session of the pages for operators; returns whether there was one.
create or replace function tidegate.session_end(token_hash bytea)
  returns boolean language plpgsql security definer as $$
begin
  delete from tidegate.page_session as s where s.token_hash = session_end.token_hash;
  return found;
end;
$$;
select tidegate_internal.allow('session_end', '{node,admin}');
