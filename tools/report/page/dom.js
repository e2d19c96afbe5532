// Elements of the page. Whatever a row says comes in as text, never as markup.
'use strict';

// Children are elements, texts, or null.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null) made.setAttribute(name, value);
  }
  for (const child of children.flat()) {
    if (child !== null) made.append(child);
  }
  return made;
}

function section(id, title, ...children) {
  return element('section', {id, 'aria-label': title}, element('h2', {}, title), ...children);
}

function note(text) { return element('p', {class: 'quiet'}, text); }

function badge(kind, text) { return element('span', {class: `badge ${kind}`}, text); }

function list(texts) { return element('ul', {}, texts.map((text) => element('li', {}, text))); }

// Texts that many rows share, numbered in the order in which they were met.
class Footnotes {
  constructor() { this.texts = []; }

  number(text) {
    if (!this.texts.includes(text)) this.texts.push(text);
    return this.texts.indexOf(text) + 1;
  }

  element() {
    if (this.texts.length === 0) return null;
    return element('ol', {class: 'quiet'}, this.texts.map((text) => element('li', {}, text)));
  }
}

// "not measured [2]", with the reason among the notes below.
function absentCell(reason, footnotes) {
  const text = `not measured: ${reason}`;
  return element('td', {class: 'absent', title: text}, `not measured [${footnotes.number(text)}]`);
}

// Columns are {title, number}; rows are lists of cells, with a class for the row or null.
function table(columns, rows) {
  const head = columns.map(
      (column) =>
          element('th', {class: column.number ? 'number' : null, scope: 'col'}, column.title));
  const body = rows.map(({kind, cells}) => element('tr', {class: kind}, cells));
  return element(
      'div', {class: 'scroll', tabindex: '0'},
      element(
          'table', {}, element('thead', {}, element('tr', {}, head)), element('tbody', {}, body)));
}

function numberCell(text) { return element('td', {class: 'number'}, text); }

function textCell(text) { return element('td', {}, text); }
