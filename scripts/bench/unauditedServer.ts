// Runs Plantroom without the audit trail of calls, to measure what the audit trail costs.
import { runProgram } from '../../src/cli/program';
import { CallAuditor } from '../../src/api/pipeline/callAuditor';

CallAuditor.prototype.begin = () => undefined;
void runProgram(process.argv.slice(2));
