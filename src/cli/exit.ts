import { CommanderError } from 'commander';
import { DomainError } from '../kernel/errors';

/** The command was used incorrectly: exit code 2. The message says what is correct. */
export class UsageError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'UsageError';
  }
}

/** A failure that was already reported; it only sets the exit code. */
export class AlreadyReportedError extends Error {
  constructor(readonly exitCode: 1 | 2) {
    super('reported');
    this.name = 'AlreadyReportedError';
  }
}

/** Returns the exit code: 0 succeeded, 1 failed, 2 incorrect usage or configuration. */
export function getExitCode(error: unknown): 0 | 1 | 2 {
  if (error instanceof AlreadyReportedError) return error.exitCode;
  // Commander reports help and version as an error with exit code 0.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  if (error instanceof UsageError) return 2;
  return error instanceof DomainError && error.kind === 'invalid_argument' ? 2 : 1;
}

/** Formats an error for stderr: the message, and the stack if `debug`; an empty string if it was already reported. */
export function formatError(error: unknown, debug: boolean): string {
  if (error instanceof AlreadyReportedError || error instanceof CommanderError) return '';
  const message = error instanceof Error ? error.message : String(error);
  const stack = debug && error instanceof Error ? `\n${getStack(error)}` : '';
  return `plantroom: ${message}${stack}\n`;
}

function getStack(error: Error): string {
  const cause = error.cause instanceof Error ? `\ncaused by ${getStack(error.cause)}` : '';
  return `${error.stack ?? error.message}${cause}`;
}
