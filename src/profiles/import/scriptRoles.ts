import { ROLE_FUNCTIONS } from '../codecs/roleFunctions';
import { CODEC_ROLES, type CodecFile, type CodecScripts } from '../profile';

// An escape sequence inside a regular expression, which ends at the end of the line.
const ESCAPE_SEQUENCE = String.raw`\\(?:[^\n]|(?=\n)|$)`;

// Comments, strings, and regular expressions where one may begin. Each match ends at the latest at the end of the line
// or of the text, so that no part is scanned twice.
const NON_CODE = new RegExp(
  [
    String.raw`\/\/[^\n]*`,
    String.raw`\/\*[\s\S]*?(?:\*\/|$)`,
    String.raw`"(?:\\(?:[\s\S]|$)|[^"\\\n])*(?:["\n]|$)`,
    String.raw`'(?:\\(?:[\s\S]|$)|[^'\\\n])*(?:['\n]|$)`,
    '`(?:\\\\(?:[\\s\\S]|$)|[^`\\\\])*(?:`|$)',
    String.raw`(?<=[=(,:;!&|?{}[] ?)\/(?:${ESCAPE_SEQUENCE}|\[(?:${ESCAPE_SEQUENCE}|[^\]\\\n])*(?:\]|(?=\n)|$)|[^/\\\n[])+(?:\/|(?=\n)|$)`,
  ].join('|'),
  'g',
);

/**
 * Detects the roles of a script from its text, without running it: removes comments, strings and regular expressions,
 * then searches for definitions of the functions of each role.
 */
export function detectRoles(file: CodecFile): CodecScripts {
  // A string that contains only a word is kept, because it may be the name of a property.
  const code = file.text.replace(NON_CODE, (skipped) => (/^(['"])\w+\1$/.test(skipped) ? skipped : ' '));
  const [encoder, decoder, downlinkDecoder] = CODEC_ROLES.map((role) =>
    ROLE_FUNCTIONS[role].some((name) => defines(code, name)) ? file : undefined,
  );
  return { encoder, decoder, downlinkDecoder };
}

/**
 * Returns whether the code defines the name as a function, a variable or a property. A call or a comparison does not
 * count.
 */
function defines(code: string, name: string): boolean {
  // function name(, name =, { name:, ["name"] =, { name() {
  const forms = [
    String.raw`\bfunction(?:\s*\*)?\s*${name}\s*\(`,
    String.raw`(?<![\w$])${name}\s*=(?![=>])`,
    String.raw`[{,]\s*['"]?${name}['"]?\s*:`,
    String.raw`\[\s*['"]${name}['"]\s*\]\s*=(?![=>])`,
    String.raw`[{,]\s*(?:async\s+)?${name}\s*\([^()]*\)\s*\{`,
  ];
  return forms.some((form) => new RegExp(form).test(code));
}
