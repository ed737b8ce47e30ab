// Stops the PostgreSQL of this run and removes its temporary files: each keeper does this when its input is closed.
module.exports = async () => {
  for (const keeper of [globalThis.plantroomTemporary, globalThis.plantroomPostgres]) {
    if (!keeper) continue;
    keeper.ref();
    const ended = new Promise((resolve) => keeper.once('exit', resolve));
    keeper.stdin.end();
    await ended;
  }
};
