import { CODEC_ROLES, type CodecFile, type CodecScripts } from '../profile';
import { RUN_FILES } from './codecFiles';
import { ROLE_FUNCTIONS } from './roleFunctions';

interface Part {
  readonly file: CodecFile;
  /** The functions of its roles; it defines none of the others for this codec, even if it holds one of that name. */
  readonly names: string[];
}

/**
 * A codec as one script, which our sandbox runs and a network server that calls global functions, too. A single file stays as it is. Several
 * follow each other as encoder, decoder and downlink decoder, each once and in a function of its own. Neither their helpers clash nor the
 * globals that they make without declaring them, and a file that throws takes no other with it. What they define or export for their roles
 * becomes global. What it cannot keep apart is said in the script's head. Empty: the codec has no file.
 */
export function joinedCodec(scripts: CodecScripts): string {
  const parts = partsOf(scripts);
  const [only] = parts;
  if (!only) return '';
  return parts.length === 1 ? only.file.text : joined(parts);
}

function partsOf(scripts: CodecScripts): Part[] {
  const parts: Part[] = [];
  for (const role of CODEC_ROLES) {
    const file = scripts[role];
    if (!file) continue;
    const part = parts.find((one) => one.file.name === file.name && one.file.text === file.text);
    if (part) part.names.push(...ROLE_FUNCTIONS[role]);
    else parts.push({ file, names: [...ROLE_FUNCTIONS[role]] });
  }
  return parts;
}

// Global by `var`, because a server may run all of it as strict code, where a name that nobody declared cannot be assigned. Undefined at first,
// because a server may run it again, and no file may be taken to define what is still there of the last time.
function joined(parts: readonly Part[]): string {
  const names = parts.flatMap((part) => part.names);
  return `${HEAD}
var ${names.map((name) => `${name} = undefined`).join(', ')};
(function (files) {
${RUN_FILES}
${names.map((name) => `  ${name} = entries.${name};`).join('\n')}
}).call(this, [
${parts.map(scopeOf).join(',\n')}
]);
`;
}

const HEAD = `// The files of this codec, each in a scope of its own and with globals of its own: what one of them sets, replaces or deletes
// of the global object, or of Object, Function.prototype, Array, String, Number, Date, Math and JSON, only its own functions find.
// What it declares is no member of the global object. Not kept apart are changes inside of other objects that were there before,
// and what two files do while both wait for promises: await the one before you call the other. A file that throws while it loads
// throws the same when it is called; one that cannot be read as JavaScript keeps all of this from being read.`;

// The inner function may have variables called `module` and `exports`, and its first line may say "use strict". Its last one may be a comment.
function scopeOf({ file, names }: Part): string {
  const own = names.map((name) => `${name}: typeof ${name} === "function" ? ${name} : undefined`);
  return `{ name: ${quoted(file.name)}, names: ${JSON.stringify(names)}, changes: [], run: function (module, exports) { return (function () {
${withoutHashbang(file.text)}
;return { ${own.join(', ')} };
}).call(this); } }`;
}

// A line separator of Unicode may stand in JSON, but not in a text of older ECMAScript.
function quoted(text: string): string {
  return JSON.stringify(text).replace(/[\u2028\u2029]/g, (separator) => (separator === '\u2028' ? '\\u2028' : '\\u2029'));
}

// A line for a shell may be the first of a script only.
function withoutHashbang(text: string): string {
  return text.replace(/^#!/, '//');
}
