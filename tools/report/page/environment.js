// Where the rows were measured. What differs between runs on one machine, free space and the like,
// is left to the rows.
'use strict';

const kVolatile = [
  'free_bytes', 'memory_available_bytes', 'command_line', 'seed', 'model_fingerprint',
  'huge_page_bytes'
];

function environmentOf(row) {
  const env = row.json.env;
  if (env === null || typeof env !== 'object') return null;
  const kept = Object.entries(env).filter(
      ([name]) => !kVolatile.includes(name) && !kVolatile.includes(name.replace(/_reason$/, '')));
  return Object.fromEntries(kept);
}

function valueText(name, value) {
  if (Array.isArray(value)) {
    if (value.length === 0) return 'none';
    return value.map((one) => valueText(name, one))
        .join(value.some((one) => typeof one === 'object') ? '; ' : ', ');
  }
  if (value !== null && typeof value === 'object') {
    return Object.entries(value)
        .filter(([key, one]) => !key.endsWith('_reason') && one !== null && one !== '')
        .map(([key, one]) => `${key.replace(/_/g, ' ')} ${valueText(key, one)}`)
        .join(', ');
  }
  if (typeof value === 'number' && name.endsWith('_bytes'))
    return `${digits(value, 0)} (${sizeText(value)})`;
  return typeof value === 'boolean' ? (value ? 'yes' : 'no') : String(value);
}

function environmentList(env) {
  const parts = [];
  for (const [name, value] of Object.entries(env)) {
    if (name.endsWith('_reason')) continue;
    const text = value === null ?
        `not measured: ${textAt(env, `${name}_reason`) ?? 'the row does not say why'}` :
        valueText(name, value);
    parts.push(
        element('dt', {}, name.replace(/_/g, ' ')),
        element('dd', value === null ? {class: 'quiet'} : {}, text));
  }
  return element('dl', {}, parts);
}

function commandsOf(rows) {
  return unique(rows.map((row) => (Array.isArray(row.json.argv) ? row.json.argv.join(' ') : ''))
                    .filter((text) => text !== ''));
}

function preformatted(summary, texts) {
  if (texts.length === 0) return null;
  return element(
      'details', {}, element('summary', {}, summary),
      texts.map((text) => element('pre', {}, text)));
}

// The fields that are not as in `first`.
function differingFields(env, first) {
  const same = (name) => JSON.stringify(env[name]) === JSON.stringify(first[name]);
  return Object.fromEntries(Object.entries(env).filter(([name]) => !same(name)));
}

function environmentsOf(rows, labels) {
  const groups = [...groupRows(rows, (row) => JSON.stringify(environmentOf(row))).values()];
  const first = environmentOf(groups[0][0]);
  return groups.flatMap((group, i) => {
    const env = environmentOf(group[0]);
    const of = unique(group.map((row) => labelName(row.label))).join(', ');
    const who = countText(group.length, 'row', 'rows') + (labels.length > 1 ? ` of ${of}` : '');
    const differs = i > 0 && env !== null && first !== null;
    const title = groups.length === 1 ? null : differs ? `${who}: as the first, except for` : who;
    const shown = env === null ? note('not measured: these rows have no env') :
                                 environmentList(differs ? differingFields(env, first) : env);
    return [title === null ? null : element('h3', {}, title), shown];
  });
}

function environmentSection(rows, labels) {
  const made = section('environment', 'Environment', environmentsOf(rows, labels));
  const jobs =
      unique(rows.map((row) => textAt(row.json, 'ceiling.fio_job')).filter((job) => job !== null));
  for (const details
           of [preformatted('Command lines', commandsOf(rows)),
               preformatted('fio jobs of the ceilings', jobs)]) {
    if (details !== null) made.append(details);
  }
  return made;
}
