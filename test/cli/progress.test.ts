import { Progress } from '../../src/cli/progress';

function drawProgress(terminal: { readonly isTTY?: boolean }, steps: readonly number[]): string[] {
  let now = 0;
  const written: string[] = [];
  const progress = new Progress(steps.length, { ...terminal, write: (text: string) => written.push(text) }, () => now);
  for (const [at, time] of steps.entries()) {
    now = time;
    progress.step(`s${at}.js`);
  }
  progress.clear();
  return written;
}

describe('the progress bar', () => {
  it('is drawn after half a second, at most ten times a second, and is cleared at the end', () => {
    expect(drawProgress({ isTTY: true }, [100, 500, 550, 600])).toEqual([
      '\r\u001b[K[############------------] 2/4  s1.js',
      '\r\u001b[K[########################] 4/4  s3.js',
      '\r\u001b[K',
    ]);
  });

  it('is not drawn for short work, or without a terminal', () => {
    expect(drawProgress({ isTTY: true }, [10, 20])).toEqual([]);
    expect(drawProgress({}, [1000, 2000])).toEqual([]);
  });
});
