// What the pages do with scripts: times of the viewer's zone, live sections, and choosing all rows. They work without.
'use strict';

const clock = new Intl.DateTimeFormat(undefined, { dateStyle: 'short', timeStyle: 'medium' });

function localise(root) {
  for (const time of root.querySelectorAll('time[datetime]')) {
    time.textContent = clock.format(new Date(time.dateTime));
  }
}

// Replaces each live section that has changed, but for one in which the viewer is.
function renew(html) {
  const fresh = new DOMParser().parseFromString(html, 'text/html');
  localise(fresh);
  for (const section of fresh.querySelectorAll('[data-live]')) {
    const shown = document.getElementById(section.id);
    if (!shown || shown.innerHTML === section.innerHTML || shown.contains(document.activeElement)) continue;
    for (const open of shown.querySelectorAll('details[open][id]')) {
      section.querySelector('#' + CSS.escape(open.id))?.setAttribute('open', '');
    }
    shown.replaceChildren(...section.childNodes);
  }
}

function follow(button) {
  let source = null;
  const show = (paused, words) => {
    button.setAttribute('aria-pressed', String(paused));
    button.textContent = words;
  };
  const start = () => {
    source?.close();
    source = new EventSource(button.dataset.source);
    source.onopen = () => show(false, 'Live: pause');
    source.onmessage = (event) => renew(event.data);
    // A stream that is refused is not opened again by the browser: the session has ended, or the node is full.
    source.onerror = () => {
      show(false, source.readyState === EventSource.CLOSED ? 'Not live: load again' : 'Connecting …');
    };
  };
  const stop = () => {
    source?.close();
    source = null;
    show(true, 'Paused: go on');
  };
  button.hidden = false;
  button.addEventListener('click', () => {
    if (source?.readyState === EventSource.CLOSED) return location.reload();
    sessionStorage.setItem('paused', source ? 'yes' : 'no');
    source ? stop() : start();
  });
  sessionStorage.getItem('paused') === 'yes' ? stop() : start();
  // A tab that nobody sees costs nothing.
  document.addEventListener('visibilitychange', () => {
    if (sessionStorage.getItem('paused') === 'yes') return;
    document.hidden ? source?.close() : start();
  });
}

localise(document);
const live = document.getElementById('live');
if (live) follow(live);
const every = document.getElementById('every');
if (every) {
  every.hidden = false;
  every.addEventListener('change', () => {
    for (const box of document.querySelectorAll('input[name=id]')) box.checked = every.checked;
  });
}
