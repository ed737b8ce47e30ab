import { runProgram } from './cli/program';

const LEAST_NODE = 24;

if (Number(process.versions.node.split('.')[0]) >= LEAST_NODE) void runProgram(process.argv.slice(2));
else {
  process.stderr.write(`plantroom: it needs Node ${LEAST_NODE} or newer, and this is ${process.versions.node}; start it by \`npm start\` or \`npm run plantroom --\`, which bring the right one\n`);
  process.exitCode = 1;
}
