import type { Sandbox } from '../codec';
import { DomainError } from '../kernel/errors';
import type { Command } from './command';
import type { CommandWarning } from './commandWarnings';
import { formatEncoderError } from './encoder';

/**
 * Returns the warning that the encoder of a stored command cannot be compiled, with the line. Empty if the
 * command has none, or if the sandbox is not available now: the command is stored, so the call must not fail.
 */
export async function findEncoderWarnings(
  compiler: Pick<Sandbox, 'compile'>,
  { organizationId, customEncoder }: Command,
  signal: AbortSignal,
): Promise<CommandWarning[]> {
  if (customEncoder === undefined) return [];
  try {
    const error = await compiler.compile(`${organizationId}:preview`, customEncoder, signal);
    if (error?.code !== 'syntax_error') return [];
    return [{ code: 'encoder_not_compilable', message: `customEncoder ${formatEncoderError(error)}` }];
  } catch (error) {
    if (error instanceof DomainError) return [];
    throw error;
  }
}
