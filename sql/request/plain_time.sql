-- plain_time: A time in the sentences of `explain`, in the time zone of the session.
create or replace function tidegate_internal.plain_time(p_at timestamptz)
  returns text language sql stable
return to_char(p_at, 'YYYY-MM-DD HH24:MI:SSTZH:TZM');
