import type { Sandbox } from '../codec';
import { DomainError } from '../kernel/errors';
import type { Command } from './command';
import { formatEncoderError } from './encoder';

/**
 * Returns what is wrong with the encoder of a stored command: that it cannot be compiled, with the line. Empty if the
 * command has none, or if the sandbox is not available now: the command is stored, so the call must not fail.
 */
export async function findEncoderWarnings(
  compiler: Pick<Sandbox, 'compile'>,
  { organizationId, customEncoder }: Command,
  signal: AbortSignal,
): Promise<string[]> {
  if (customEncoder === undefined) return [];
  try {
    const error = await compiler.compile(`${organizationId}:preview`, customEncoder, signal);
    return error?.code === 'syntax_error' ? [`customEncoder ${formatEncoderError(error)}`] : [];
  } catch (error) {
    if (error instanceof DomainError) return [];
    throw error;
  }
}
