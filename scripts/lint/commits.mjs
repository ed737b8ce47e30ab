// Checks that the commit subjects since the introduction of this check have at most 72 characters. A clone without that
// history passes.
import { spawnSync } from 'node:child_process';

const MAX_SUBJECT_LENGTH = 72;
const INTRODUCED_IN = 'a633a0a3d25b8610562af0c4f5ea66fe9120e652';

const { status, stdout } = spawnSync('git', ['log', '--format=%h %s', `${INTRODUCED_IN}..HEAD`], { encoding: 'utf8' });
const tooLong =
  status === 0
    ? stdout.split('\n').filter((line) => line.slice(line.indexOf(' ') + 1).length > MAX_SUBJECT_LENGTH)
    : [];
for (const line of tooLong)
  console.error(`${line}: shorten the subject to ${MAX_SUBJECT_LENGTH} characters; put the reason into the body`);
process.exit(tooLong.length > 0 ? 1 : 0);
