// What a person reads of the proofs: a list, a line per proof while they run, and a table at the end.
import { readFileSync } from 'node:fs';

const SHOWN_LINES = 60;
const pad = (proofs) => Math.max(...proofs.map(({ name }) => name.length));

/** Returns the list of proofs: name, limit, what it proves, and what it needs. */
export function formatList(proofs) {
  return proofs
    .map(({ name, proves, limitMinutes, needs }) => {
      const notes = [`at most ${limitMinutes} min`, ...(needs ? [`needs ${needs.join(', ')}`] : [])];
      return `${name.padEnd(pad(proofs))}  ${proves}\n${''.padEnd(pad(proofs))}  (${notes.join('; ')})`;
    })
    .join('\n');
}

/** Returns the line of a proof that has ended. */
export function formatResult({ name, verdict, seconds, reason }) {
  return `${verdict.padEnd(10)} ${name}${seconds === undefined ? '' : ` after ${seconds} s`}${reason ? `: ${reason}` : ''}`;
}

/** Returns the end of the output of a proof. */
export function formatOutput({ name, outputFile }) {
  const lines = readFileSync(outputFile, 'utf8').trimEnd().split('\n');
  return `--- ${name}: the last lines of ${outputFile}\n${lines.slice(-SHOWN_LINES).join('\n')}\n---`;
}

/** Returns the table of all results, with the parts that were skipped below their proof. */
export function formatSummary(results) {
  const rows = results.flatMap(({ name, verdict, seconds, reason, skipped = [] }) => [
    `${name.padEnd(pad(results))}  ${`${seconds ?? 0} s`.padStart(7)}  ${verdict}${reason ? `: ${reason}` : ''}`,
    ...skipped.map((line) => `${''.padEnd(pad(results))}           ${line.trim()}`),
  ]);
  const count = (wanted) => results.filter(({ verdict }) => verdict === wanted).length;
  const totals = ['passed', 'incomplete', 'skipped', 'failed'].map((verdict) => `${count(verdict)} ${verdict}`);
  return `${rows.join('\n')}\n\n${totals.join(', ')}`;
}
