import { runProgram } from './cli/program';

const MIN_NODE_MAJOR = 24;

if (Number(process.versions.node.split('.')[0]) >= MIN_NODE_MAJOR) void runProgram(process.argv.slice(2));
else {
  process.stderr.write(
    `plantroom: Node ${MIN_NODE_MAJOR} or newer is required (this is ${process.versions.node}): start it with \`npm start\` or \`npm run plantroom --\`, which use the right version\n`,
  );
  process.exitCode = 1;
}
