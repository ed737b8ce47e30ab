import { runProgram } from './cli/program';

void runProgram(process.argv.slice(2));
