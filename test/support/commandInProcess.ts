import { createProgram } from '../../src/cli/program';
import { formatError, getExitCode } from '../../src/cli/exit';
import type { Ended } from './commandLine';

// `plantroom backup` permanently lowers the priority of its thread, in which the tests run here.
jest.mock('../../src/kernel/lowerPriority', () => ({ lowerPriority: (): void => {} }));

/** Messages of Node itself, of deprecations for example. The program suppresses them. */
const NODE_WARNING = /^\(node:\d+\) /;

/**
 * Runs `plantroom` with these arguments in this process, one call at a time, with only these PLANTROOM_ variables. Use
 * it for tests that need no separate process, because a process takes long to start.
 */
export async function plantroomHere(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('PLANTROOM_'));
  const variables = jest.replaceProperty(process, 'env', { ...Object.fromEntries(inherited), ...env });
  const written = { stdout: '', stderr: '' };
  const spies = (['stdout', 'stderr'] as const).map((name) =>
    jest.spyOn(process[name], 'write').mockImplementation((text) => {
      if (!NODE_WARNING.test(String(text))) written[name] += String(text);
      return true;
    }),
  );
  try {
    await createProgram().parseAsync([...args], { from: 'user' });
    return { code: 0, ...written };
  } catch (error) {
    return { code: getExitCode(error), stdout: written.stdout, stderr: written.stderr + formatError(error, false) };
  } finally {
    for (const spy of spies) spy.mockRestore();
    variables.restore();
  }
}
