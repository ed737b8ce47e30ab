import { existsSync } from 'node:fs';
import type { Config } from '../../config';
import { DomainError } from '../../kernel/errors';
import { messageOf } from '../../kernel/thrown';
import { Reported } from '../exit';
import { say, showTable } from '../output';
import { configOf, type ConfigFlags } from '../options';
import { newestEvents } from './auditChecks';
import { backups } from './backupChecks';
import { certificates } from './certificateChecks';
import { fail, ok, warn, type Check, type Finding } from './check';
import { machineClock } from './clockChecks';
import { database } from './databaseChecks';
import { fileSystem } from './fileSystem';
import { dataFolder } from './folderChecks';
import { limits } from './limitChecks';
import { mayLookInto } from './pathFacts';
import { secretsKey } from './secretChecks';
import { server } from './serverChecks';
import { storage } from './storageChecks';

/** In the order in which they matter: what fails is shown first, then what is warned of. */
const CHECKS: Readonly<Record<string, Check>> = { 'data folder': dataFolder, 'file system': fileSystem, server, database, storage, 'audit trail': newestEvents, certificates, 'secrets key': secretsKey, backups, clock: machineClock, limits };
const WEIGHT = { fail: 0, warn: 1, ok: 2 } as const;

/** `plantroom doctor`: looks at everything, says what to mend; exit code 1 if the server cannot work like this. */
export async function runDoctor(flags: ConfigFlags): Promise<void> {
  const findings = (await examine(flags)).toSorted((one, other) => WEIGHT[one.state] - WEIGHT[other.state]);
  if (flags.json !== true) say(summary(findings));
  showTable(findings, ['state', 'check', 'found', 'mend'], flags);
  if (findings.some((finding) => finding.state === 'fail')) throw new Reported(1);
}

/** `3 things to mend, 2 to look at`. */
export function summary(findings: readonly Finding[]): string {
  const [toMend, toLookAt] = (['fail', 'warn'] as const).map((state) => findings.filter((finding) => finding.state === state).length);
  if (!toMend) return toLookAt ? `nothing to mend, ${things(toLookAt)} to look at` : 'all is well';
  return `${things(toMend)} to mend${toLookAt ? `, ${toLookAt} to look at` : ''}`;
}

const things = (n: number): string => (n === 1 ? '1 thing' : `${n} things`);

async function examine(flags: ConfigFlags): Promise<Finding[]> {
  let config: Config;
  try {
    ({ config } = configOf(flags));
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    return error.violations.map((v) => fail('configuration', v.description, 'mend it; the rest is checked then'));
  }
  const findings = [ok('configuration', 'is sound')];
  const isClosed = existsSync(config.data.dir) && !mayLookInto(config.data.dir);
  if (isClosed) findings.push(...dataFolder(config), warn('the rest', 'was not looked at: server, database, certificates, secrets and backups need the data folder', 'run this as the user of the server'));
  else for (const [name, check] of Object.entries(CHECKS)) findings.push(...(await look(name, check, config)));
  return findings;
}

/** A check that cannot look must not keep the others from it. */
async function look(name: string, check: Check, config: Config): Promise<Finding[]> {
  try {
    return await check(config);
  } catch (error) {
    return [fail(name, `could not be looked at (${messageOf(error)})`, 'run this as the user of the server; if it stays, look at the log')];
  }
}
