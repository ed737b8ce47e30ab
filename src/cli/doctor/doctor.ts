import { existsSync } from 'node:fs';
import type { Config } from '../../config';
import { DomainError } from '../../kernel/errors';
import { formatMessage } from '../../kernel/errorUtils';
import { AlreadyReportedError } from '../exit';
import { print, showTable } from '../output';
import { getConfig, type ConfigFlags } from '../options';
import { checkAuditTrail } from './auditChecks';
import { checkBackups } from './backupChecks';
import { checkCertificates } from './certificateChecks';
import { fail, formatCount, ok, warn, type Check, type Finding } from './check';
import { checkClock } from './clockChecks';
import { checkDatabase } from './databaseChecks';
import { checkFileSystem } from './fileSystem';
import { checkFirstKeyFile } from './firstKeyChecks';
import { checkDataFolder } from './folderChecks';
import { checkLimits } from './limitChecks';
import { canReadFolder } from './pathFacts';
import { checkSecretsKey } from './secretChecks';
import { checkServer } from './serverChecks';
import { checkStorage } from './storageChecks';

/** All checks, most important first. The output lists failures first, then warnings. */
const CHECKS: Readonly<Record<string, Check>> = {
  'data folder': checkDataFolder,
  'file system': checkFileSystem,
  server: checkServer,
  database: checkDatabase,
  storage: checkStorage,
  'audit trail': checkAuditTrail,
  certificates: checkCertificates,
  'secrets key': checkSecretsKey,
  'bootstrap key file': checkFirstKeyFile,
  backups: checkBackups,
  clock: checkClock,
  limits: checkLimits,
};
const STATE_ORDER = { fail: 0, warn: 1, ok: 2 } as const;

/** Implements `plantroom doctor`: runs all checks and prints fixes. The exit code is 1 if any check fails. */
export async function runDoctor(flags: ConfigFlags): Promise<void> {
  const findings = (await runChecks(flags)).toSorted((one, other) => STATE_ORDER[one.state] - STATE_ORDER[other.state]);
  if (flags.json !== true) print(formatSummary(findings));
  showTable(findings, ['state', 'check', 'found', 'fix'], flags);
  if (findings.some((finding) => finding.state === 'fail')) throw new AlreadyReportedError(1);
}

/** Formats a headline such as `the server is stopped; 3 problems, 2 warnings`. */
export function formatSummary(findings: readonly Finding[]): string {
  const [problems = 0, warnings = 0] = (['fail', 'warn'] as const).map(
    (state) => findings.filter((finding) => finding.state === state).length,
  );
  // checkServer warns only about a stopped server.
  const isStopped = findings.some(({ check, state }) => check === 'server' && state === 'warn');
  return `${isStopped ? 'the server is stopped; ' : ''}${formatCount(problems, 'problem')}, ${formatCount(warnings, 'warning')}`;
}

/** Runs all checks. Without a valid configuration or a readable data folder, most are skipped. */
async function runChecks(flags: ConfigFlags): Promise<Finding[]> {
  let config: Config;
  try {
    ({ config } = getConfig(flags));
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    return error.violations.map((v) =>
      fail('configuration', v.description, 'fix the configuration, then run this command again for the other checks'),
    );
  }
  const findings = [ok('configuration', 'valid')];
  const isUnreadable = existsSync(config.data.dir) && !canReadFolder(config.data.dir);
  if (isUnreadable)
    findings.push(
      ...checkDataFolder(config),
      warn(
        'the rest',
        'not checked: server, database, certificates, secrets and backups need the data folder',
        "run this command as the server's user",
      ),
    );
  else for (const [name, check] of Object.entries(CHECKS)) findings.push(...(await runCheck(name, check, config)));
  return findings;
}

/** Runs one check. An error becomes a finding, so that the other checks still run. */
async function runCheck(name: string, check: Check, config: Config): Promise<Finding[]> {
  try {
    return await check(config);
  } catch (error) {
    return [
      fail(
        name,
        `could not be checked (${formatMessage(error)})`,
        "run this command as the server's user; if it fails again, check the log",
      ),
    ];
  }
}
