insert into jobs (kind, payload) values ('noop', '{"i":1}');
