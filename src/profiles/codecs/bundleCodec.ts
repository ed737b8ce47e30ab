import { CODEC_ROLES, type CodecFile, type CodecScripts } from '../profile';
import { RUN_FILES } from './codecFiles';
import { ROLE_FUNCTIONS } from './roleFunctions';

/** A file of a codec, with all roles that it has. */
interface BundledFile {
  readonly file: CodecFile;
  /** The function names of its roles, for example `decodeUplink`. Other functions in the file are not used. */
  readonly functionNames: string[];
}

/**
 * Bundles a codec into one script. The sandbox of this server can run it, and so can network servers that call global
 * functions. A single file stays unchanged. Several files follow each other in the order encoder, decoder, downlink
 * decoder, each once and inside its own function. Their helpers and their implicit globals therefore do not collide,
 * and a file that throws does not affect the others. The functions that they define or export for their roles become
 * global. The header comment of the script lists what is not isolated. Returns an empty string if the codec has no
 * file.
 */
export function bundleCodec(scripts: CodecScripts): string {
  const files = listFiles(scripts);
  const [firstFile] = files;
  if (!firstFile) return '';
  return files.length === 1 ? firstFile.file.text : bundleFiles(files);
}

/** Lists the files of a codec in the order of CODEC_ROLES, each once, even if several roles use the same file. */
function listFiles(scripts: CodecScripts): BundledFile[] {
  const files: BundledFile[] = [];
  for (const role of CODEC_ROLES) {
    const file = scripts[role];
    if (!file) continue;
    const listed = files.find((bundled) => bundled.file.name === file.name && bundled.file.text === file.text);
    if (listed) listed.functionNames.push(...ROLE_FUNCTIONS[role]);
    else files.push({ file, functionNames: [...ROLE_FUNCTIONS[role]] });
  }
  return files;
}

/**
 * Builds the script of several files: the comment HEAD, and RUN_FILES, which loads the files and puts the functions of
 * their roles into `entries`. The names are declared with `var`, because a server may run the script in strict
 * mode, where assigning an undeclared name is an error. They are reset to undefined first, because a server may run the
 * script again, and a definition of the previous run must not count as a definition of this run.
 */
function bundleFiles(files: readonly BundledFile[]): string {
  const names = files.flatMap((bundled) => bundled.functionNames);
  return `${HEAD}
var ${names.map((name) => `${name} = undefined`).join(', ')};
(function (files) {
${RUN_FILES}
${names.map((name) => `  ${name} = entries.${name};`).join('\n')}
}).call(this, [
${files.map(wrapFile).join(',\n')}
]);
`;
}

const HEAD = `// The files of this codec. Each file has its own scope and its own globals: if it sets, replaces or deletes properties of the
// global object, or of Object, Function.prototype, Array, String, Number, Date, Math or JSON, only its own functions
// see the change. Its declarations do not become properties of the global object. Two things are not isolated: changes
// inside other objects that existed before, and two functions of different files that wait for promises at the same
// time (await one before you call the other). If a file throws while it loads, its functions throw the same error when
// they are called. A file with a JavaScript syntax error makes the complete script invalid.`;

/**
 * Formats the description of a file for RUN_FILES, which fills its `changes`. Wraps the file in a function that returns
 * the functions of its roles. The inner function may declare variables named `module` and `exports`, and its first line
 * may be "use strict". The line break before the return statement ends a comment in the last line.
 */
function wrapFile({ file, functionNames }: BundledFile): string {
  const definedFunctions = functionNames.map((name) => `${name}: typeof ${name} === "function" ? ${name} : undefined`);
  return `{ name: ${quoteString(file.name)}, names: ${JSON.stringify(functionNames)}, changes: [], run: function (module, exports) { return (function () {
${commentOutHashbang(file.text)}
;return { ${definedFunctions.join(', ')} };
}).call(this); } }`;
}

/**
 * Formats a string literal. JSON strings may contain Unicode line separators; literals before ECMAScript 2019 may not.
 */
function quoteString(text: string): string {
  return JSON.stringify(text).replace(/[\u2028\u2029]/g, (separator) =>
    separator === '\u2028' ? '\\u2028' : '\\u2029',
  );
}

/** Makes a hashbang line a comment, because it is only valid as the first line of a script. */
function commentOutHashbang(text: string): string {
  return text.replace(/^#!/, '//');
}
