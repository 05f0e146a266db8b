-- $1 the request
select r.kind, r.submitter from tidegate.request as r where r.id = $1;
