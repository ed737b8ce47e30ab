import { findJsonProblem, type JsonObject } from '../../kernel/jsonValue';
import type { CodecError, CodecErrorCode } from '../codecRun';
import type { GuestProblem } from '../sandboxProtocol';
import { ENTRY_POINTS, type Role } from '../roles';

const MAX_DATA_BYTES = 65_536;

/** The rules of a role, on the host side. */
export interface RoleRules {
  /** One of our scripts, which returns the ScriptDefinitions of the role. */
  readonly entryPointScript: string;
  /** The error of a script that has no function for the role. */
  readonly missingFunctionError: CodecError;
  /** The code of the errors that the script reports. */
  readonly reportedErrorCode: CodecErrorCode;
  /** Returns why a result is not usable; undefined if it is. */
  findProblem(answer: JsonObject): GuestProblem | undefined;
}

const RULES: Readonly<Record<Role, RoleRules>> = {
  encoder: {
    entryPointScript: createEntryPointScript('encoder'),
    missingFunctionError: createMissingFunctionError(
      'no_encoder',
      'the script defines no encoder: define function encodeDownlink(input) that returns {bytes: [1, 2, 3]}',
    ),
    reportedErrorCode: 'encoder_errors',
    findProblem: () => undefined, // the guest has checked every byte
  },
  uplinkDecoder: {
    entryPointScript: createEntryPointScript('uplinkDecoder'),
    missingFunctionError: createMissingFunctionError(
      'no_decoder',
      'the script defines no uplink decoder: define function decodeUplink(input) that returns {data: {temperature: 21.5}}',
    ),
    reportedErrorCode: 'decoder_errors',
    findProblem: findDataProblem,
  },
  downlinkDecoder: {
    entryPointScript: createEntryPointScript('downlinkDecoder'),
    missingFunctionError: createMissingFunctionError(
      'no_decoder',
      'the script defines no downlink decoder: define function decodeDownlink(input) that returns {data: {temperature: 21.5}}',
    ),
    reportedErrorCode: 'decoder_errors',
    findProblem: findDataProblem,
  },
};

/** The rules by role. */
export function getRules(role: Role): RoleRules {
  return RULES[role];
}

/**
 * Returns a script whose value is the ScriptDefinitions: the functions that the user's script defines for the role.
 * `typeof` also finds what it declared with const or class, which is not a property of globalThis.
 */
function createEntryPointScript(role: Role): string {
  const names = ENTRY_POINTS[role].map((name) => `${name}: typeof ${name} === "function" ? ${name} : undefined`);
  return `({ ${names.join(', ')}, exports: typeof module === "object" && module !== null ? module.exports : undefined })`;
}

function createMissingFunctionError(code: CodecErrorCode, message: string): CodecError {
  return { code, message, lineNumber: undefined };
}

/** Returns why data cannot be stored as JSON; undefined if it can. */
function findDataProblem(data: JsonObject): GuestProblem | undefined {
  const problem = findJsonProblem(data);
  if (problem !== undefined) return { code: 'bad_output', message: `data ${problem}` };
  const bytes = Buffer.byteLength(JSON.stringify(data));
  return bytes > MAX_DATA_BYTES
    ? { code: 'too_large', message: `data has ${bytes} bytes as JSON: the maximum is ${MAX_DATA_BYTES}` }
    : undefined;
}
