import { ENTRY_POINTS } from '../../codec';
import { CODEC_ROLES, type CodecFile, type CodecRole, type CodecScripts } from '../profile';

/** The functions that a file may define for what it does; it defines none of the others for this codec, even if it holds one of that name. */
const NAMES: { readonly [Role in CodecRole]: readonly string[] } = { encoder: ENTRY_POINTS.encoder, decoder: ENTRY_POINTS.uplinkDecoder, downlinkDecoder: ENTRY_POINTS.downlinkDecoder };

interface Part {
  readonly file: CodecFile;
  readonly names: string[];
}

/**
 * A codec as one script, which our sandbox runs and a network server that calls global functions, too. A single file stays as it is. Several
 * follow each other as encoder, decoder and downlink decoder, each once and in a function of its own, where their helpers cannot clash; what
 * they define or export for their roles becomes global. Empty: the codec has no file.
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
    if (part) part.names.push(...NAMES[role]);
    else parts.push({ file, names: [...NAMES[role]] });
  }
  return parts;
}

// Global by `var`, because a server may run all of it as strict code, where a name that nobody declared cannot be assigned.
function joined(parts: readonly Part[]): string {
  const names = parts.flatMap((part) => part.names).join(', ');
  return `// The files of this codec, each in a scope of its own.
var { ${names} } = (function (files) {
  var entries = {};
  var exportedAs = function (name, exported) {
    if (exported === null || exported === undefined) return undefined;
    if (typeof exported[name] === "function") return exported[name];
    return typeof exported === "function" && exported.name === name ? exported : undefined;
  };
  files.forEach(function (file) {
    var module = { exports: {} };
    var own = file.run.call(this, module, module.exports);
    var exported = module.exports;
    Object.keys(own).forEach(function (name) {
      entries[name] = own[name] || exportedAs(name, exported) || (exported && exportedAs(name, exported.default));
    });
  }, this);
  return entries;
}).call(this, [
${parts.map(scopeOf).join(',\n')}
]);
`;
}

// The inner function may have variables called `module` and `exports`, and its first line may say "use strict". Its last one may be a comment.
function scopeOf({ file, names }: Part): string {
  const own = names.map((name) => `${name}: typeof ${name} === "function" ? ${name} : undefined`);
  return `{ file: ${JSON.stringify(file.name)}, run: function (module, exports) { return (function () {
${file.text}
;return { ${own.join(', ')} };
}).call(this); } }`;
}
