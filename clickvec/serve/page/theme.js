// Runs before the first paint, so that the colours do not flash. app.js has the button.
try {
  const theme = localStorage.getItem("clickvec-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* no storage: the colours of the system */ }
