import { ROLE_FUNCTIONS } from '../codecs/roleFunctions';
import { CODEC_ROLES, type CodecFile, type CodecScripts } from '../profile';

// In a regular expression, which its line ends.
const ESCAPED = String.raw`\\(?:[^\n]|(?=\n)|$)`;

// Comments, texts, and regular expressions where one may begin. Each ends at the latest where its line or the text does, so that no text is looked through twice.
const NO_CODE = new RegExp(
  [
    String.raw`\/\/[^\n]*`,
    String.raw`\/\*[\s\S]*?(?:\*\/|$)`,
    String.raw`"(?:\\(?:[\s\S]|$)|[^"\\\n])*(?:["\n]|$)`,
    String.raw`'(?:\\(?:[\s\S]|$)|[^'\\\n])*(?:['\n]|$)`,
    '`(?:\\\\(?:[\\s\\S]|$)|[^`\\\\])*(?:`|$)',
    String.raw`(?<=[=(,:;!&|?{}[] ?)\/(?:${ESCAPED}|\[(?:${ESCAPED}|[^\]\\\n])*(?:\]|(?=\n)|$)|[^/\\\n[])+(?:\/|(?=\n)|$)`,
  ].join('|'),
  'g',
);

/** What a script defines, found by looking at its text: nothing is run. */
export function rolesOf(file: CodecFile): CodecScripts {
  const code = file.text.replace(NO_CODE, (skipped) => (/^(['"])\w+\1$/.test(skipped) ? skipped : ' '));
  const [encoder, decoder, downlinkDecoder] = CODEC_ROLES.map((role) => (ROLE_FUNCTIONS[role].some((name) => defines(code, name)) ? file : undefined));
  return { encoder, decoder, downlinkDecoder };
}

/** As a function, a variable or a member; called or compared alone does not count. */
function defines(code: string, name: string): boolean {
  const forms = [
    String.raw`\bfunction(?:\s*\*)?\s*${name}\s*\(`,
    String.raw`(?<![\w$])${name}\s*=(?![=>])`,
    String.raw`[{,]\s*['"]?${name}['"]?\s*:`,
    String.raw`\[\s*['"]${name}['"]\s*\]\s*=(?![=>])`,
    String.raw`[{,]\s*(?:async\s+)?${name}\s*\([^()]*\)\s*\{`,
  ];
  return forms.some((form) => new RegExp(form).test(code));
}
