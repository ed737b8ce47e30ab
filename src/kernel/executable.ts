import { isSea } from 'node:sea';

/** Whether this process is the single binary, which contains all of its files. Otherwise it runs from a checkout. */
export const isBinary: boolean = isSea();

/** How users call this program on the command line: `${programName} doctor`. */
export const programName = isBinary ? 'plantroom' : 'npm run --silent plantroom --';

/** Returns the command that starts this program again as a separate process: `spawn(file, args)`. */
export function getSelfCommand(args: readonly string[]): { readonly file: string; readonly args: readonly string[] } {
  const [, program = ''] = process.argv;
  return { file: process.execPath, args: isBinary ? args : [program, ...args] };
}
