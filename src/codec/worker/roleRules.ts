import { jsonProblem, type JsonObject } from '../../kernel/jsonValue';
import type { CodecError, CodecErrorCode } from '../codecRun';
import type { GuestProblem } from '../guestWords';
import { ENTRY_POINTS, type Role } from '../roles';

const MOST_DATA_BYTES = 65_536;

/** What is particular to a role, on the host side. */
export interface RoleRules {
  /** A script of ours that gives what a Found holds. */
  readonly finder: string;
  /** The error of a script that has no function for the role. */
  readonly missing: CodecError;
  /** The code of the errors that the script names itself. */
  readonly ownErrors: CodecErrorCode;
  /** Why an answer is of no use, if it is not. */
  problemOf(answer: JsonObject): GuestProblem | undefined;
}

const RULES: Readonly<Record<Role, RoleRules>> = {
  encoder: {
    finder: finderOf('encoder'),
    missing: missing('no_encoder', 'the script defines no encoder; define function encodeDownlink(input) that returns {bytes: [1, 2, 3]}'),
    ownErrors: 'encoder_errors',
    problemOf: () => undefined, // the guest has looked at every byte
  },
  uplinkDecoder: {
    finder: finderOf('uplinkDecoder'),
    missing: missing('no_decoder', 'the script defines no decoder of uplinks; define function decodeUplink(input) that returns {data: {temperature: 21.5}}'),
    ownErrors: 'decoder_errors',
    problemOf: dataProblem,
  },
  downlinkDecoder: {
    finder: finderOf('downlinkDecoder'),
    missing: missing('no_decoder', 'the script defines no decoder of downlinks; define function decodeDownlink(input) that returns {data: {temperature: 21.5}}'),
    ownErrors: 'decoder_errors',
    problemOf: dataProblem,
  },
};

/** What is particular to a role. */
export function rulesOf(role: Role): RoleRules {
  return RULES[role];
}

// `typeof` finds what a script declared with const or class, too, which no property of globalThis shows.
function finderOf(role: Role): string {
  const names = ENTRY_POINTS[role].map((name) => `${name}: typeof ${name} === "function" ? ${name} : undefined`);
  return `({ ${names.join(', ')}, exports: typeof module === "object" && module !== null ? module.exports : undefined })`;
}

function missing(code: CodecErrorCode, message: string): CodecError {
  return { code, message, lineNumber: undefined };
}

/** Why data cannot be kept as JSON. */
function dataProblem(data: JsonObject): GuestProblem | undefined {
  const problem = jsonProblem(data);
  if (problem !== undefined) return { code: 'bad_output', message: `data ${problem}` };
  const bytes = Buffer.byteLength(JSON.stringify(data));
  return bytes > MOST_DATA_BYTES ? { code: 'too_large', message: `data has ${bytes} bytes as JSON; at most ${MOST_DATA_BYTES} are taken` } : undefined;
}
