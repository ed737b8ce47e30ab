// A Plantroom whose edge has no auditor, and nothing else that is different: what the audit trail costs is measured against it.
import { runProgram } from '../../src/cli/program';
import { Edge } from '../../src/rpc/calls/edge';

Edge.prototype.prepare = ({ method, context }, request) => method.pass(context, request);
void runProgram(process.argv.slice(2));
