import { CommanderError } from 'commander';
import { DomainError } from '../kernel/errors';

/** The command was used wrongly: exit code 2. The message says what would be right. */
export class UsageError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'UsageError';
  }
}

/** A failure that was reported already; only the exit code is left to say. */
export class Reported extends Error {
  constructor(readonly exitCode: 1 | 2) {
    super('reported');
    this.name = 'Reported';
  }
}

/** 0 done, 1 failed, 2 used wrongly (also a mistake in the configuration). */
export function exitCodeOf(error: unknown): 0 | 1 | 2 {
  if (error instanceof Reported) return error.exitCode;
  // Help and version end by an error of code 0.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  if (error instanceof UsageError) return 2;
  return error instanceof DomainError && error.kind === 'invalid_argument' ? 2 : 1;
}

/** What to write to stderr: one sentence, the stack only when debugging; nothing if it was reported already. */
export function errorText(error: unknown, debug: boolean): string {
  if (error instanceof Reported || error instanceof CommanderError) return '';
  const message = error instanceof Error ? error.message : String(error);
  const stack = debug && error instanceof Error ? `\n${stackOf(error)}` : '';
  return `plantroom: ${message}${stack}\n`;
}

function stackOf(error: Error): string {
  const cause = error.cause instanceof Error ? `\ncaused by ${stackOf(error.cause)}` : '';
  return `${error.stack ?? error.message}${cause}`;
}
