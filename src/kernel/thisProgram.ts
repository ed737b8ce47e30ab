import { isSea } from 'node:sea';

/** Whether this is the single binary, which holds all of its files; else it runs from a checkout. */
export const isBinary: boolean = isSea();

/** How people start this program on their command line: `${programName} doctor`. */
export const programName = isBinary ? 'plantroom' : 'npm run --silent plantroom --';

/** What starts this program once more, in a process of its own: `spawn(file, args)`. */
export function ownCommand(args: readonly string[]): { readonly file: string; readonly args: readonly string[] } {
  const [, program = ''] = process.argv;
  return { file: process.execPath, args: isBinary ? args : [program, ...args] };
}
