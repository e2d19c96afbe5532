// What goes wrong in the page is kept on its root element, for tests to read, and shown to the
// reader.
'use strict';
const pageErrors = [];

function noteError(text) {
  pageErrors.push(text);
  document.documentElement.dataset.errors = pageErrors.join(' | ');
}

window.addEventListener('error', (event) => noteError(`${event.message} (line ${event.lineno})`));
window.addEventListener('unhandledrejection', (event) => noteError(String(event.reason)));
document.addEventListener('securitypolicyviolation', (event) => {
  document.documentElement.dataset.refused = `${event.violatedDirective} ${event.blockedURI}`;
});
