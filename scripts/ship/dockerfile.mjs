// Parses the subset of the Dockerfile syntax that our Dockerfile uses: stages, instructions, flags, ARG and ENV.

/**
 * Returns the stages of a Dockerfile in order: `{name, from, instructions: [{word, flags, value}]}`. JSON values are parsed,
 * variables are replaced.
 */
export function readDockerfile(text, args = {}) {
  const stages = [];
  let variables = { ...args };
  for (const line of listLines(text)) {
    const [, word = '', rest = ''] = /^(\w+)\s+(.*)$/s.exec(line) ?? [];
    const { flags, value } = parseFlags(rest);
    if (word === 'FROM') stages.push(parseStage(replaceVariables(value, variables)));
    else if (stages.length === 0) throw new Error(`${word} before the first FROM is not supported`);
    else
      stages.at(-1).instructions.push({
        word,
        flags,
        value: word === 'RUN' ? value : parseValue(replaceVariables(value, variables)),
      });
    variables = { ...variables, ...getVariables(word, replaceVariables(value, variables), args) };
  }
  return stages;
}

function parseStage(text) {
  const [, from = '', name] = /^(\S+)(?:\s+AS\s+(\S+))?$/i.exec(text) ?? [];
  return { name, from, instructions: [] };
}

/** Returns the variables that an instruction defines. Build arguments override the default of an ARG. */
function getVariables(word, value, args) {
  if (word === 'ENV') return parsePairs(value);
  const [name, defaultValue = ''] = value.split('=');
  return word === 'ARG' ? { [name]: args[name] ?? defaultValue } : {};
}

/** Parses the pairs of an ENV or LABEL. */
export function parsePairs(text) {
  return Object.fromEntries(
    [...text.matchAll(/([\w.]+)=("[^"]*"|\S+)/g)].map(([, name, value]) => [name, value.replace(/^"(.*)"$/, '$1')]),
  );
}

function listLines(text) {
  const kept = text
    .split('\n')
    .filter((line) => !/^\s*(#|$)/.test(line))
    .join('\n');
  return kept
    .replace(/\\\n\s*/g, '')
    .split('\n')
    .filter(Boolean);
}

function parseFlags(rest) {
  const [, before = '', value = ''] = /^((?:--\S+\s+)*)(.*)$/s.exec(rest) ?? [];
  return {
    flags: Object.fromEntries(
      [...before.matchAll(/--([\w-]+)(?:=(\S+))?/g)].map(([, name, given]) => [name, given ?? true]),
    ),
    value,
  };
}

const replaceVariables = (text, variables) => text.replace(/\$\{?(\w+)\}?/g, (_, name) => variables[name] ?? '');

const parseValue = (value) => (value.startsWith('[') ? JSON.parse(value) : value);
