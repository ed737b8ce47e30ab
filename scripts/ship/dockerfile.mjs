// Reads a Dockerfile as far as ours goes: stages, instructions with their flags, arguments and variables put in.

/** The stages of a Dockerfile in order: `{name, from, instructions: [{word, flags, value}]}`; a value in JSON is the array it writes. */
export function readDockerfile(text, args = {}) {
  const stages = [];
  let variables = { ...args };
  for (const line of linesOf(text)) {
    const [, word = '', rest = ''] = /^(\w+)\s+(.*)$/s.exec(line) ?? [];
    const { flags, value } = flagsOf(rest);
    if (word === 'FROM') stages.push(stageOf(filled(value, variables)));
    else if (stages.length === 0) throw new Error(`${word} stands before the first FROM: this reader does not know that`);
    else stages.at(-1).instructions.push({ word, flags, value: word === 'RUN' ? value : fromJson(filled(value, variables)) });
    variables = { ...variables, ...variablesOf(word, filled(value, variables), args) };
  }
  return stages;
}

function stageOf(text) {
  const [, from = '', name] = /^(\S+)(?:\s+AS\s+(\S+))?$/i.exec(text) ?? [];
  return { name, from, instructions: [] };
}

/** The variables that an instruction brings; what was given from outside wins over what an ARG presets. */
function variablesOf(word, value, args) {
  if (word === 'ENV') return pairsOf(value);
  const [name, preset = ''] = value.split('=');
  return word === 'ARG' ? { [name]: args[name] ?? preset } : {};
}

/** The pairs of an ENV or LABEL. */
export function pairsOf(text) {
  return Object.fromEntries([...text.matchAll(/([\w.]+)=("[^"]*"|\S+)/g)].map(([, name, value]) => [name, value.replace(/^"(.*)"$/, '$1')]));
}

function linesOf(text) {
  const kept = text.split('\n').filter((line) => !/^\s*(#|$)/.test(line)).join('\n');
  return kept.replace(/\\\n\s*/g, '').split('\n').filter(Boolean);
}

function flagsOf(rest) {
  const [, before = '', value = ''] = /^((?:--\S+\s+)*)(.*)$/s.exec(rest) ?? [];
  return { flags: Object.fromEntries([...before.matchAll(/--([\w-]+)(?:=(\S+))?/g)].map(([, name, given]) => [name, given ?? true])), value };
}

const filled = (text, variables) => text.replace(/\$\{?(\w+)\}?/g, (_, name) => variables[name] ?? '');

const fromJson = (value) => (value.startsWith('[') ? JSON.parse(value) : value);
