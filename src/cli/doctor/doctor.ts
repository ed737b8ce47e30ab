import type { Config } from '../../config';
import { DomainError } from '../../kernel/errors';
import { Reported } from '../exit';
import { showTable } from '../output';
import { configOf, type ConfigFlags } from '../options';
import { certificates } from './certificateChecks';
import { fail, ok, type Check, type Finding } from './check';
import { database } from './databaseChecks';
import { dataFolder, machineClock } from './folderChecks';
import { secretsKey } from './secretChecks';
import { server } from './serverChecks';

const CHECKS: readonly Check[] = [dataFolder, server, database, certificates, secretsKey, machineClock];

/** `plantroom doctor`: looks at everything, says what to mend; exit code 1 if the server cannot work like this. */
export async function runDoctor(flags: ConfigFlags): Promise<void> {
  const findings = await examine(flags);
  showTable(findings, ['state', 'check', 'found', 'mend'], flags);
  if (findings.some((finding) => finding.state === 'fail')) throw new Reported(1);
}

async function examine(flags: ConfigFlags): Promise<Finding[]> {
  let config: Config;
  try {
    ({ config } = configOf(flags));
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    return error.violations.map((v) => fail('configuration', v.description, 'mend it; the rest is checked then'));
  }
  const findings = [ok('configuration', 'is sound')];
  for (const check of CHECKS) findings.push(...(await check(config)));
  return findings;
}
