-- paused_tags: How far a pause moves a tag: beyond all virtual time.
--
-- So a paused turn is an idle one that is never forgotten, and no search for ready turns meets it.
create or replace function tidegate_internal.paused_tags()
  returns bigint language sql immutable parallel safe
return 2305843009213693952;
