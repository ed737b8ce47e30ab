import { Progress } from '../../src/cli/progress';

function drawn(terminal: { readonly isTTY?: boolean }, steps: readonly number[]): string[] {
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
  it('draws what is done after half a second, ten times a second at most, and goes away', () => {
    expect(drawn({ isTTY: true }, [100, 500, 550, 600])).toEqual(['\r\u001b[K[############------------] 2/4  s1.js', '\r\u001b[K[########################] 4/4  s3.js', '\r\u001b[K']);
  });

  it('draws nothing for quick work, or where nobody watches', () => {
    expect(drawn({ isTTY: true }, [10, 20])).toEqual([]);
    expect(drawn({}, [1000, 2000])).toEqual([]);
  });
});
