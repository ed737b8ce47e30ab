import { makeProgram } from '../../src/cli/program';
import { errorText, exitCodeOf } from '../../src/cli/exit';
import type { Ended } from './commandLine';

/** What Node says itself, of deprecations for example: the program keeps it away. */
const NODE_WARNING = /^\(node:\d+\) /;

/** Runs `plantroom` with these arguments in this process, one at a time, with only these PLANTROOM_ variables: for what does not depend on the process, which takes long to start. */
export async function plantroomHere(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
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
    await makeProgram().parseAsync([...args], { from: 'user' });
    return { code: 0, ...written };
  } catch (error) {
    return { code: exitCodeOf(error), stdout: written.stdout, stderr: written.stderr + errorText(error, false) };
  } finally {
    for (const spy of spies) spy.mockRestore();
    variables.restore();
  }
}
